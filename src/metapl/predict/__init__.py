"""`metapl predict`: what a run says of new pictures, however many there are."""
