"""The command line. Start at :mod:`semilocal.cli.main`."""
