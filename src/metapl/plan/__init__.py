"""`metapl plan`: what a training step needs on hardware you don't have, from its compiled program."""
