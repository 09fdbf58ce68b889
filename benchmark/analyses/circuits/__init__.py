"""Circuits of a comparison's methods: against random orders, against what is known, as files and as pictures."""
