"""One module per command: ``run``, a typed function, or ``app`` with one function per action; loaded when called."""
