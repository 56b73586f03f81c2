"""The style of the page: light and dark, from 360 pixels on."""

from __future__ import annotations

STYLE = """
:root { color-scheme: light dark; --ink: #1c2430; --soft: #5b6675; --paper: #fff; --line: #d8dee6; --card: #f5f7fa;
  --bad: #a3261b; --ready: #0f766e; --held: #c2570c; --filling: #64a8e8; --free: #c9d2dc; --bar: #0f766e }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e6eaf0; --soft: #9aa6b5; --paper: #12161c; --line: #2d3642; --card: #1a2029; --bad: #ff9a8f;
    --ready: #2fb3a3; --held: #f08a4b; --filling: #5b9bd8; --free: #3a4552; --bar: #2fb3a3 }
}
* { box-sizing: border-box }
body { margin: 0 auto; max-width: 1200px; padding: 1rem; font: 15px/1.5 system-ui, sans-serif; color: var(--ink);
  background: var(--paper) }
header { display: flex; flex-wrap: wrap; align-items: baseline; gap: 0 1rem }
h1 { font-size: 1.3rem; margin: 0; overflow-wrap: anywhere } header p { margin: 0 }
h2 { font-size: 1.1rem; margin: 0 0 .6rem; overflow-wrap: anywhere }
h2.user { margin-top: 2rem }
h3 { font-size: .8rem; margin: 1.4rem 0 .4rem; color: var(--soft); text-transform: uppercase; letter-spacing: .06em }
p { margin: .3rem 0 } .soft { color: var(--soft) } .bad { color: var(--bad) }
section { background: var(--card); border: 1px solid var(--line); border-radius: 8px; padding: 1rem; margin: 1rem 0 }
.state { font-weight: 400; font-size: .85rem; color: var(--soft); border: 1px solid var(--line); border-radius: 9px;
  padding: .05rem .5rem }
dl { display: grid; grid-template-columns: repeat(auto-fill, minmax(min(100%, 260px), 1fr)); gap: .5rem 1.5rem; margin: .6rem 0 }
dt { color: var(--soft); font-size: .85rem } dd { margin: 0; overflow-wrap: anywhere }
table { border-collapse: collapse; width: 100% } .wide { overflow-x: auto }
th, td { text-align: left; vertical-align: top; padding: .25rem .8rem .25rem 0; border-bottom: 1px solid var(--line) }
th { font-weight: 600; color: var(--soft); white-space: nowrap }
.bars th { font-weight: 400; color: var(--ink); width: 34%; white-space: normal; overflow-wrap: anywhere }
.bars td, .bars th { border: 0; vertical-align: middle } .bars .number { width: 5.5rem; text-align: right; padding-right: 0;
  font-variant-numeric: tabular-nums; white-space: nowrap }
.bar div { height: .7rem; min-width: 1px; border-radius: 3px; background: var(--bar) }
.slots { display: flex; gap: 2px; height: 1rem; border-radius: 4px; overflow: hidden } .slots div { min-width: 3px }
.ready { background: var(--ready) } .held { background: var(--held) } .filling { background: var(--filling) }
.free { background: var(--free) }
.key { white-space: nowrap } .key i { display: inline-block; width: .7rem; height: .7rem; border-radius: 2px; margin-right: .3rem }
.plan { max-width: 100%; min-width: 560px; height: auto; display: block }
.broken { list-style: none; margin: 0; padding: 0; display: grid; gap: .8rem;
  grid-template-columns: repeat(auto-fill, minmax(min(100%, 340px), 1fr)) }
.broken li { display: flex; gap: .8rem; min-width: 0 } .broken li > div { min-width: 0 } .broken p { margin: 0 }
.thumb { flex: 0 0 96px; height: 96px; background: var(--paper); border: 1px solid var(--line); border-radius: 4px;
  display: flex; align-items: center; justify-content: center; overflow: hidden }
.thumb img { max-width: 100%; max-height: 100% } .none { font-size: .7rem; line-height: 1.3; color: var(--soft); padding: .3rem;
  overflow-wrap: anywhere }
.name { overflow-wrap: anywhere; font-size: .9rem } .broken .bad, .broken .soft { font-size: .85rem; overflow-wrap: anywhere }
@media (max-width: 600px) {
  body { padding: .7rem } section { padding: .8rem }
  dl { gap: .3rem } dl div { display: grid; grid-template-columns: 6.5rem 1fr; gap: .5rem } dt { padding-top: .1rem }
  .bars, .bars tbody { display: block } .bars tr { display: grid; grid-template-columns: 1fr auto; gap: 0 .5rem; padding: .2rem 0 }
  .bars th { width: auto; padding: 0 } .bars .number { grid-area: 1 / 2; width: auto; padding: 0 }
  .bars .bar { grid-area: 2 / 1 / 3 / 3; padding: 0 }
}
"""
