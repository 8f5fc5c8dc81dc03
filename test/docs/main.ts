/** `npm run docs`: writes the pages that are made from the source. */

import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { projectRoot } from '../support/source-tree.ts';
import { ERROR_PAGE, errorPage } from './error-page.ts';

writeFileSync(join(projectRoot, ERROR_PAGE), errorPage());
