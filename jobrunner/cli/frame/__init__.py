"""What the nouns of the command line share: options, printing, the service, its file, transfers."""
