/** Where a command reads and writes: results to standard output, everything else to standard error. */

export interface Terminal {
  readonly stdout: NodeJS.WritableStream;
  readonly stderr: NodeJS.WritableStream;
  /** Whether a person watches standard error. */
  readonly isWatched: boolean;
  /** Whether standard error shows colours, and nobody has asked for none (`NO_COLOR`). */
  readonly hasColor: boolean;
  /** Columns of the screen, as it is now; a sensible width where there is none. */
  readonly width: number;
  /** Rows of a screen that can be drawn over, as it is now; null where standard error is none. */
  readonly height: number | null;
}

/** Resolves once the stream has taken the text, so that a slow reader slows the writer down and not the memory up. */
export function write(stream: NodeJS.WritableStream, text: string): Promise<void> {
  return new Promise((resolve, reject) => {
    stream.write(text, (error) => (error ? reject(error) : resolve()));
  });
}
