"""The page of a finished run, and the HTML file that shares it."""
