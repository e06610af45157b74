"""What operators write in files and options, read strictly, with the line in every error."""
