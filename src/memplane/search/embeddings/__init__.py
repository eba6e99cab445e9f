"""Texts to vectors, for those who have the libraries or a model: three ways, one contract."""
