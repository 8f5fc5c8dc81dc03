/** From a configuration to the parts of a catch-up, opened in order and closed in the opposite one. */
