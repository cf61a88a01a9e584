"""Data: the rows of a model and all that a user hands over, checked, named and read from frames."""
