/** As much of a terminal as the program uses: what stands on it, and above it, after everything that was written to it. */

// biome-ignore lint/suspicious/noControlCharactersInRegex: they are what a terminal acts on.
const CONTROL = /\u001b\[(\??)(\d*)([A-Za-z])|\r|\n|[^\u001b\r\n]+/gu;

export class TerminalScreen {
  #width: number;
  #height: number;
  #lines = [''];
  #row = 0;
  #column = 0;
  #wraps = true;

  constructor(width: number, height: number) {
    this.#width = width;
    this.#height = height;
  }

  /** All lines, also those that have left the screen at its top; the last one is the one below all that was written. */
  get lines(): readonly string[] {
    return this.#lines.map((line) => line.trimEnd());
  }

  write(text: string): void {
    for (const [whole, isPrivate, number, command] of text.matchAll(CONTROL)) {
      if (command !== undefined) this.#control(`${isPrivate}${command}`, Number(number || 1));
      else if (whole === '\r') this.#column = 0;
      else if (whole === '\n') this.#lineFeed();
      else for (const character of whole) this.#put(character);
    }
  }

  /** Lines that have become too long are broken; the cursor stays with its character. */
  resize(width: number, height: number): void {
    const broken = this.#lines.map((line) => line.trimEnd().match(new RegExp(`.{1,${width}}`, 'gu')) ?? ['']);
    this.#row = broken.slice(0, this.#row).reduce((sum, parts) => sum + parts.length, 0);
    this.#lines = broken.flat();
    this.#width = width;
    this.#height = height;
  }

  #control(command: string, number: number): void {
    const line = this.#lines[this.#row] ?? '';
    switch (command) {
      case 'J':
        this.#lines = [...this.#lines.slice(0, this.#row), line.slice(0, this.#column)];
        return;
      case 'K':
        this.#lines[this.#row] = line.slice(0, this.#column);
        return;
      case 'A':
        this.#row = Math.max(0, this.#lines.length - this.#height, this.#row - number);
        return;
      case '?l':
      case '?h':
        this.#wraps = command === '?h';
        return;
      case 'm':
        return;
      default:
        throw new Error(`The program wrote a control sequence that this terminal does not know: ${command}`);
    }
  }

  #lineFeed(): void {
    this.#row += 1;
    this.#column = 0;
    if (this.#row === this.#lines.length) this.#lines.push('');
  }

  #put(character: string): void {
    if (this.#column >= this.#width) {
      if (this.#wraps) this.#lineFeed();
      else this.#column = this.#width - 1;
    }
    const line = (this.#lines[this.#row] ?? '').padEnd(this.#column);
    this.#lines[this.#row] = `${line.slice(0, this.#column)}${character}${line.slice(this.#column + 1)}`;
    this.#column += 1;
  }
}
