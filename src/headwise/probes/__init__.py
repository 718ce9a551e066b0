"""What can be learned from hidden tokens and attention: small maps and classifiers, trained on what a model gives."""
