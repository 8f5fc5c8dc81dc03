/**
 * The private words of the first version stay away. The list holds whole identifiers and file names only: a reader judges
 * ordinary words. docs/glossary.md has the terms that replace them.
 */

import { readdirSync, readFileSync } from 'node:fs';
import { basename, join, relative } from 'node:path';
import { fileURLToPath } from 'node:url';
import { expect, it } from 'vitest';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));
const FOLDERS = ['src', 'test', 'fixtures'];

const IDENTIFIERS = [
  ...[
    'Want',
    'wants',
    'WantChange',
    'emptyWant',
    'changedWant',

    'HeldDataset',
    'HeldColumn',
    'readHeld',
  ],
  ...['Hold', 'Holds', 'heldAt', 'isHeld', 'holdOf', 'storeHold', 'standingHolds', 'reportHold'],
  ...[
    'looksAsked',
    'looksDone',
    'owesLook',
    'isLookPending',
    'lookAgain',
    'Known',
    'knownAgain',
    'Offer',
    'Offers',
  ],
  ...[
    'OfferBook',
    'bookFor',
    'standingAt',
    'standingOf',
    'Standing',
    'SituationAtWork',
    'Situation',
    'Terrain',
  ],
  ...[
    'Walk',
    'hop',
    'hops',
    'RouteByLoad',
    'Workshop',
    'workshop',
    'makeWorkshop',
    'inEarnest',
    'foresee',
    'foreseen',
  ],
  ...['Foreseen', 'Foresight', 'foresight', 'carryOut', 'Ground', 'WorkOutcome', 'Ending', 'Unit', 'units'],
  ...[
    'UnitQueue',
    'UnitResult',
    'SnapshotUnit',
    'ChangesUnit',
    'Deed',
    'Prepared',
    'PreparedUnit',
    'Examination',
  ],
  ...[
    'WriteWindow',
    'AttachWindow',
    'WindowLostError',
    'LeftFree',
    'leftFree',
    'leftFreeMs',
    'Books',
    'BookEntry',
  ],
  ...[
    'LineEntry',
    'HistoryLine',
    'HistoryPosition',
    'foldChanges',
    'foldEvents',
    'gaveWay',
    'UnusableChangesError',
  ],
  ...[
    'overtaken',
    'Outlet',
    'outlet',
    'Agenda',
    'agenda',
    'Errand',
    'errand',
    'Shift',
    'Followee',
    'followee',
  ],
  ...['isQuiet', 'quietReadAt', 'takeAnew', 'Trouble', 'Troubles', 'TransientTrouble', 'networkTrouble'],
  ...[
    'tellError',
    'tellHold',
    'tellMoment',
    'tellCauses',
    'tellsOfAlteration',
    'toldAt',
    'JournalEntry',
    'Tally',
    'tally',
    'Glance',
    'glance',
  ],
  ...[
    'Happening',
    'PersonWatch',
    'Patient',
    'Learned',
    'Places',
    'onTurn',
    'setAside',
    'Room',
    'NoRoomError',
  ],
  ...['RoomTakenError', 'withinRoom', 'withTrouble', 'lacked'],
];

const FILE_NAMES = [
  ...[
    'wants',

    'offers',
    'offer-book',
    'workshop',
    'foresee',
    'foresight',
    'carry-out',
    'terrain',
    'walk',
  ],
  ...['books', 'deed', 'agenda', 'errand', 'followee', 'tally', 'glance', 'happening', 'journal', 'outlet'],
  ...[
    'left-free',
    'set-aside',
    'in-turn',
    'echo',
    'standing',
    'person',
    'room',
    'trouble',
    'troubles',
    'told',
  ],
];

/** Where a name of a former format stands because the program reads that format. */
const READS_FORMER_FORMATS = /^(?:src\/checkpoint\/sqlite|test\/unit\/(?:forbidden-names|checkpoint-))/;

const files = FOLDERS.flatMap((folder) =>
  readdirSync(join(ROOT, folder), { recursive: true, encoding: 'utf8' })
    .filter((name) => name.endsWith('.ts'))
    .map((name) => relative(ROOT, join(ROOT, folder, name))),
);

it('no file has a name of the first version’s private words', () => {
  const stems = new Set(FILE_NAMES);
  expect(files.filter((path) => stems.has(basename(path).split('.')[0] ?? ''))).toEqual([]);
});

it('no identifier of the first version’s private words is left', () => {
  const pattern = new RegExp(`(?<![\\w$'"\`.-])(?:${IDENTIFIERS.join('|')})(?![\\w$'"\`-])`, 'g');
  const found = files
    .filter((path) => !READS_FORMER_FORMATS.test(path))
    .flatMap((path) =>
      withoutTexts(readFileSync(join(ROOT, path), 'utf8'))
        .split('\n')
        .flatMap((line, index) =>
          isComment(line) ? [] : (line.match(pattern) ?? []).map((name) => `${path}:${index + 1} ${name}`),
        ),
    );
  expect(found).toEqual([]);
});

function isComment(line: string): boolean {
  return /^\s*(?:\*|\/\*|\/\/)/.test(line);
}

/** Templates keep their line breaks, so that the numbers of lines stay. */
function withoutTexts(code: string): string {
  return code.replace(/`[^`]*`/g, (text) => text.replace(/[^\n]/g, '')).replace(/'[^'\n]*'|"[^"\n]*"/g, '');
}
