"""Which of a comparison's tests can be trusted here: tests are tested with what the comparison has computed anyway."""
