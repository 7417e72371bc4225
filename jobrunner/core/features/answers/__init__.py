"""Answers from anywhere: questions that stages ask of somebody outside, and what they are told."""
