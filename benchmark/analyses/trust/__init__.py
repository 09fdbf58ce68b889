"""Which of a comparison's tests can be trusted here: tests are tested, with its rows and on explanations made for it."""
