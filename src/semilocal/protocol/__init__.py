"""The protocol, sans-IO: messages, verdict rules, the device's machine, the server's machine, the transcript.

Knows no clock, socket, file or random generator: entropy and time are arguments.
"""
