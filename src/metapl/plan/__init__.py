"""`metapl plan`: what a training step needs on machines that are not here, from its compiled program."""
