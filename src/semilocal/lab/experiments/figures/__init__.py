"""One module per figure of the paper."""
