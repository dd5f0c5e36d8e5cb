"""One file, one command: its name is the word on the command line, its function is `command`."""
