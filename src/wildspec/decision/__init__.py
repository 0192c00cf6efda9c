"""Where a score becomes a decision: kept or rejected."""
