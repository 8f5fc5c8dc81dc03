/** What is known of file systems, by the number that Linux gives each: whether a database is in good hands there. Pure. */

export interface FileSystem {
  readonly name: string;
  /** What may happen to a database on it; null where nothing is known against it. */
  readonly risk: { readonly why: string; readonly hint: string } | null;
}

const NETWORK = {
  why: 'over a network locks often do not hold: two instances could write at once, and a loss of power may cost what was committed',
  hint: 'Put it on a local disk, or on a block device that one machine has mounted.',
};
const SHARED = {
  why: 'it is a folder of another system, handed in: locks and syncing are only as good as what hands it in',
  hint: 'Put it on a disk or volume of this machine.',
};
const CONTAINER = {
  why: 'it is the writable layer of a container, and gone with the container',
  hint: 'Mount a volume, and set dataDir to it.',
};
const MEMORY = {
  why: 'it is kept in memory, and gone when the machine or the container ends',
  hint: 'Set dataDir to a folder on a disk.',
};

const KNOWN: ReadonlyMap<number, readonly [string, FileSystem['risk']]> = new Map([
  [0xef53, ['ext', null]],
  [0x58465342, ['XFS', null]],
  [0x9123683e, ['Btrfs', null]],
  [0x2fc12fc1, ['ZFS', null]],
  [0xf2f52010, ['F2FS', null]],
  [0xca451a4e, ['bcachefs', null]],
  [0x6969, ['NFS', NETWORK]],
  [0xff534d42, ['CIFS', NETWORK]],
  [0x517b, ['SMB', NETWORK]],
  [0xfe534d42, ['SMB2', NETWORK]],
  [0x00c36400, ['Ceph', NETWORK]],
  [0x0bd00bd0, ['Lustre', NETWORK]],
  [0x5346414f, ['AFS', NETWORK]],
  [0x01161970, ['GFS2', NETWORK]],
  [0x7461636f, ['OCFS2', NETWORK]],
  [0x47504653, ['GPFS', NETWORK]],
  [0x01021997, ['9p', SHARED]],
  [0x65735546, ['FUSE', SHARED]],
  [0x786f4256, ['VirtualBox folder', SHARED]],
  [0x794c7630, ['overlay', CONTAINER]],
  [0x61756673, ['aufs', CONTAINER]],
  [0x01021994, ['tmpfs', MEMORY]],
  [0x858458f6, ['ramfs', MEMORY]],
] satisfies readonly (readonly [number, readonly [string, FileSystem['risk']]])[]);

/** 32 bits, of which the system may give the highest as a sign. */
const WORD = 0x1_0000_0000;

export function fileSystemOf(number: number): FileSystem {
  const magic = ((number % WORD) + WORD) % WORD;
  const [name, risk] = KNOWN.get(magic) ?? [`type 0x${magic.toString(16)}`, null];
  return { name, risk };
}
