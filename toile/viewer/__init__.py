"""The page in the browser: a scene that runs live, or a finished run played back."""
