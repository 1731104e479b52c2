"""One module per command, each with ``add_arguments(parser)`` and ``run(args)``; loaded when the command is called."""
