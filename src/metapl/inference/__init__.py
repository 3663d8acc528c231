"""Ask a network about stored examples, for everyone: evaluation, prediction, stored predictions, the estimator."""
