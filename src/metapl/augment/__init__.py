"""From a batch to the views that networks see."""
