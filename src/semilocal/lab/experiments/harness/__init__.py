"""What every figure needs: runner, cache, panels, style, report."""
