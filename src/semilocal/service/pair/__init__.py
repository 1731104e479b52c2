"""One of two servers that count together without seeing anybody's place. Experimental: not reviewed independently."""
