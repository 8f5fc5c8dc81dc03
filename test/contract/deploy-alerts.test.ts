/** The alert rules: what they ask is served, and Prometheus's own program plays them, where it is. */

import { spawnSync } from 'node:child_process';
import process from 'node:process';
import { describe, expect, it, onTestFinished } from 'vitest';
import { createMetrics } from '../../src/daemon/server/metrics.ts';
import { daemonState, SteeredObserved } from '../support/daemon-state.ts';
import { at, listAt, projectText, yamlFile } from '../support/deployment-files.ts';
import { projectRoot } from '../support/source-tree.ts';

const RULES = 'config/prometheus-alerts.yaml';
const PLAYED = 'test/contract/deploy-alerts.yaml';

const SIZES = { mirror: 1, checkpoint: 1, diskFree: 1, diskReserve: 1 };

const alerts = listAt(yamlFile(RULES), 'groups.0.rules');
const names = alerts.map((alert) => String(at(alert, 'alert')));

const hasPromtool = spawnSync('promtool', ['--version']).status === 0;
if (!hasPromtool) {
  process.stderr.write(
    'The alert rules are not played: there is no promtool. On Debian: apt-get install prometheus\n',
  );
}

/** The queries of the panels of the dashboard. */
function dashboardTargets(): readonly unknown[] {
  const dashboard: unknown = JSON.parse(projectText('config/grafana-dashboard.json'));
  return listAt(dashboard, 'panels').flatMap((panel) =>
    at(panel, 'type') === 'row' ? [] : listAt(panel, 'targets'),
  );
}

describe('the alerts', () => {
  it('the alerts and the dashboard query only metrics that are served', async () => {
    const expressions = [...alerts, ...dashboardTargets()].map((each) => String(at(each, 'expr')));
    const asked = expressions.flatMap((expression) => expression.match(/\bfeed_sync_\w+/g) ?? []);
    const metrics = createMetrics('1.2.3', new SteeredObserved());
    onTestFinished(metrics.stop);
    const served = await metrics.render(daemonState(), SIZES);
    expect(asked.length).toBeGreaterThan(alerts.length);
    const isServed = (name: string) => served.includes(`# TYPE ${name.replace(/_bucket$/, '')} `);
    expect(asked.filter((name) => !isServed(name))).toEqual([]);
  });

  it('the alerts say what happened and what to do, and the guide names each', () => {
    const guide = projectText('docs/guide.md');
    for (const alert of alerts) {
      expect(at(alert, 'annotations.summary')).toMatch(/\.$/);
      expect(at(alert, 'annotations.action')).toMatch(/\.$/);
      expect(guide).toContain(`\`${at(alert, 'alert')}\``);
      expect(['warning', 'critical']).toContain(at(alert, 'labels.severity'));
    }
  });

  it('every alert fires in the rules that promtool plays', () => {
    const fired = listAt(yamlFile(PLAYED), 'tests.1.promql_expr_test.0.exp_samples');
    expect(fired.map((sample) => at(sample, 'labels'))).toEqual(names.map((name) => `{alertname="${name}"}`));
  });
});

describe.skipIf(!hasPromtool)('Prometheus', () => {
  it.each([
    ['promtool accepts the rules', ['check', 'rules', RULES]],
    ['F64 promtool fires each alert when it should, and none when all is well', ['test', 'rules', PLAYED]],
  ])('%s', (_, words) => {
    const { status, stdout, stderr } = spawnSync('promtool', words, { cwd: projectRoot, encoding: 'utf8' });
    expect(status, `${stdout}${stderr}`).toBe(0);
  });
});
