"""The rows of a model and everything a user hands over: checked, named and read from frames."""
