"""One module per group of commands; loaded when one of its commands is called."""
