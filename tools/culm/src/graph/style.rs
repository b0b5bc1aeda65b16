//! Colours and faces of the picture. Every colour stands twice, for light and for dark screens;
//! custom properties would say it once, but not every viewer of SVG knows them.

/// The style sheet.
pub const STYLE: &str = "
text { font-family: system-ui, 'Segoe UI', 'Helvetica Neue', 'DejaVu Sans', sans-serif; fill: #1f2933 }
.name { font-size: 14px; font-weight: 600 }
.small { font-size: 11px; fill: #5b6b7b }
.title { font-size: 24px; font-weight: 700 }
.subtitle { font-size: 13px; fill: #5b6b7b }
.lane-title { font-size: 12px; font-weight: 600; fill: #7b8794; letter-spacing: .06em }
.paper { fill: #fbfcfd }
.lane { fill: #f1f4f7; stroke: #e1e7ec }
.box { fill: #ffffff; stroke: #c6d0d9; stroke-width: 1.2 }
.strip { fill: #ffffff; stroke: #c6d0d9; stroke-dasharray: 5 4 }
.chip { fill: #33414e; stroke: none }
.pin { fill: #8796a5 }
.chip-text { fill: #f4f7f9 }
.chip-small { font-size: 11px; fill: #b9c6d2 }
.accent-driver { fill: #e8590c }
.accent-virtualiser { fill: #1c7ed6 }
.accent-copier { fill: #0ca678 }
.accent-application { fill: #7048e8 }
.accent-supervisor { fill: #868e96 }
.badge { fill: #e9eef3 }
.badge-text { font-size: 11px; fill: #3e4c59 }
.budget { fill: #fff0d6 }
.passive { fill: #e6e0fb }
.pill { fill: #fff9db; stroke: #f0d98c; stroke-width: 1.2 }
.logs { fill: #f8f9fa; stroke: #c6d0d9; stroke-dasharray: 3 3 }
.edge { fill: none; stroke-width: 1.9; stroke-linecap: round }
.back { fill: none; stroke-width: 1.1; stroke-dasharray: 4 4 }
.queue { stroke: #1c7ed6 } .head-queue { fill: #1c7ed6 }
.device { stroke: #7b8794 } .head-device { fill: #7b8794 }
.call { stroke: #7048e8 } .head-call { fill: #7048e8 }
.notify { stroke: #ae3ec9; stroke-dasharray: 6 4 } .head-notify { fill: #ae3ec9 }
.write, .read { stroke: #b7860b } .head-write, .head-read { fill: #b7860b }
.log { stroke: #9aa5b1; stroke-dasharray: 3 4 } .head-log { fill: #9aa5b1 }
.label { font-size: 11px; fill: #3e4c59 }
.label-back { fill: #f1f4f7; opacity: .92 }
.eye { fill: none; stroke: #5b6b7b; stroke-width: 1.3 } .pupil { fill: #5b6b7b }
.node:hover .box { stroke: #1c7ed6; stroke-width: 2 }
.link:hover .edge { stroke-width: 3 }
@media (prefers-color-scheme: dark) {
text { fill: #e4e9ee }
.small, .subtitle { fill: #9aa9b7 }
.lane-title { fill: #8494a3 }
.paper { fill: #12181d }
.lane { fill: #1a2229; stroke: #28323b }
.box { fill: #222c35; stroke: #3d4a56 }
.strip { fill: #1e272f; stroke: #3d4a56 }
.chip { fill: #c3ced8 }
.pin { fill: #758696 }
.chip-text { fill: #151c22 }
.chip-small { fill: #43525f }
.accent-driver { fill: #ff8c42 }
.accent-virtualiser { fill: #4dabf7 }
.accent-copier { fill: #38d9a9 }
.accent-application { fill: #9775fa }
.accent-supervisor { fill: #adb5bd }
.badge { fill: #313d48 }
.badge-text { fill: #cdd6de }
.budget { fill: #4d3d1d }
.passive { fill: #3b3263 }
.pill { fill: #38321c; stroke: #6b5d2a }
.logs { fill: #1e272f; stroke: #3d4a56 }
.queue { stroke: #4dabf7 } .head-queue { fill: #4dabf7 }
.device { stroke: #8796a5 } .head-device { fill: #8796a5 }
.call { stroke: #9775fa } .head-call { fill: #9775fa }
.notify { stroke: #da77f2 } .head-notify { fill: #da77f2 }
.write, .read { stroke: #e0b040 } .head-write, .head-read { fill: #e0b040 }
.log { stroke: #66737f } .head-log { fill: #66737f }
.label { fill: #cdd6de }
.label-back { fill: #1a2229 }
.eye { stroke: #9aa9b7 } .pupil { fill: #9aa9b7 }
}
";
