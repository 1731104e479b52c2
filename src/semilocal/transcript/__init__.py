"""What was said in a campaign: hash tree, checkpoints, files, download, replay and verification."""
