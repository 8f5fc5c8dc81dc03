/** What the recorder wrote down of a program: its changes of files, their syncs, and what it said, in order. Pure. */

export type Effect =
  | { readonly kind: 'create' | 'mkdir'; readonly inode: string; readonly path: string }
  | { readonly kind: 'truncate'; readonly inode: string; readonly length: number }
  | { readonly kind: 'write'; readonly inode: string; readonly offset: number; readonly bytes: Buffer }
  | { readonly kind: 'sync'; readonly inode: string }
  | { readonly kind: 'rename'; readonly from: string; readonly to: string }
  | { readonly kind: 'unlink'; readonly path: string }
  | { readonly kind: 'say'; readonly text: string };

/** Reads the records of recorder.c. Paths begin below `root`; the folder itself is the empty path. */
export function readEffects(bytes: Buffer, root: string): readonly Effect[] {
  const effects: Effect[] = [];
  for (let at = 0; at < bytes.length; ) {
    const end = bytes.indexOf('\n', at);
    const [kind = '', inode = '', second = '', third = '', size = ''] = bytes
      .toString('latin1', at, end)
      .split(' ');
    const payload = bytes.subarray(end + 1, end + 1 + Number(size));
    effects.push(effectOf(kind, { inode, second: Number(second), third: Number(third), payload, root }));
    at = end + 1 + Number(size);
  }
  return effects;
}

interface Fields {
  readonly inode: string;
  readonly second: number;
  readonly third: number;
  readonly payload: Buffer;
  readonly root: string;
}

function effectOf(kind: string, { inode, second, third, payload, root }: Fields): Effect {
  const pathIn = (part: Buffer): string => part.toString('utf8').slice(root.length + 1);
  switch (kind) {
    case 'create':
    case 'mkdir':
      return { kind, inode, path: pathIn(payload) };
    case 'truncate':
      return { kind, inode, length: second };
    case 'write':
      return { kind, inode, offset: second, bytes: payload };
    case 'sync':
      return { kind, inode };
    case 'rename':
      return { kind, from: pathIn(payload.subarray(0, third)), to: pathIn(payload.subarray(third)) };
    case 'unlink':
      return { kind, path: pathIn(payload) };
    case 'say':
      return { kind, text: payload.toString('utf8') };
    default:
      throw new Error(`no record of the recorder: ${kind}`);
  }
}
