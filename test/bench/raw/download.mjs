/** curl: `url` into the file `path`, and then, with `digest`, its sha256 by node:crypto. */
import { spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { createReadStream } from 'node:fs';

const [url, path, digest] = process.argv.slice(2);
const { status, stderr } = spawnSync('curl', ['--silent', '--show-error', '--fail', '--output', path, url]);
if (status !== 0) throw new Error(`curl ended with ${status}: ${stderr}`);
if (digest === 'digest') {
  const hash = createHash('sha256');
  for await (const part of createReadStream(path)) hash.update(part);
  process.stdout.write(hash.digest('hex'));
}
