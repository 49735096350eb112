"""The engine: memory, models and the step loop; nothing here imports the app."""
