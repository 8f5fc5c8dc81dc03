/** The seed of the random tests: fixed, so that every run is the same. fast-check prints it with what it found. */
export const SEED = 20_261_120;
