"""The race with llama.cpp: two contenders, one file, a fair order, and a result that anyone can rerun."""
