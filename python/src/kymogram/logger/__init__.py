"""The functions, under the names that programs written for Metrana import."""
