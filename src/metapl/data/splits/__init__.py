"""Which examples are labelled, unlabelled, for validation and for the test."""
