"""What `ebbtide eval` measures, and on which texts."""
