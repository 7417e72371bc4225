"""The frame that all commands share: options, printing, the service, its file, transfers."""
