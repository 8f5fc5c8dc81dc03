/** A value in a change row decodes to the same value in every spelling; an invalid one is refused by its place (C4 to C13). */

import fc from 'fast-check';
import { describe, expect } from 'vitest';
import { COLUMN_TYPES } from '../../src/model/records.ts';
import { textOfCell, textOfMirrored } from '../support/cell-text.ts';
import { changeFolderOfTests } from '../support/change-folder.ts';
import { added } from '../support/change-pages.ts';
import { column } from '../support/duckdb-mirror.ts';
import { VALUES } from './change-values.ts';
import { property } from './property.ts';

const VALUES_AT_ONCE = 25;

const folder = changeFolderOfTests();

describe.each(COLUMN_TYPES)('values of type %s', (type) => {
  const values = fc.array(VALUES[type], { minLength: 1, maxLength: VALUES_AT_ONCE, size: 'max' });

  property(
    'decodes a value of a change to the same value in every spelling',
    3,
    fc.asyncProperty(values, async (list) => {
      const spelled = list.flatMap(({ cell, spellings }) => spellings.map((text) => ({ cell, text })));
      const { rows } = await folder.coalesce(
        { columns: [column('id', 'integer'), column('v', type)] },
        { changes: [spelled.map(({ text }, id) => added(`{"id":${id},"v":${text}}`))] },
      );
      const decoded = new Map(
        rows.map(([, id, text = null]) => [Number(id), textOfMirrored(type, text as string | null)]),
      );
      const found = spelled.map(({ text }, id) => [text, decoded.get(id)]);
      expect(found).toEqual(spelled.map(({ cell, text }) => [text, textOfCell(type, cell)]));
    }),
  );
});
