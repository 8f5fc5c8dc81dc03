/** The few colours of the view. None of them means anything that the words do not say. */

export interface Paint {
  readonly strong: (text: string) => string;
  readonly faint: (text: string) => string;
  readonly moving: (text: string) => string;
  readonly alarming: (text: string) => string;
}

const asItIs = (text: string): string => text;

export const PLAIN: Paint = { strong: asItIs, faint: asItIs, moving: asItIs, alarming: asItIs };

export const COLORED: Paint = {
  strong: inside(1, 22),
  faint: inside(2, 22),
  moving: inside(36, 39),
  alarming: inside(33, 39),
};

/** By the numbers of "select graphic rendition". */
function inside(begin: number, end: number): (text: string) => string {
  return (text) => (text === '' ? '' : `\u001b[${begin}m${text}\u001b[${end}m`);
}
