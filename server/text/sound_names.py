"""Names of sounds and tones that other speech models take in brackets, such as [laughs] and <sigh>."""

from __future__ import annotations

SOUNDS = frozenset(
    "laugh laughs laughing laughter chuckle chuckles chuckling giggle giggles giggling sigh sighs sighing gasp gasps "
    "gasping cough coughs coughing groan groans groaning yawn yawns yawning whisper whispers whispering cry cries "
    "crying sob sobs sobbing sniff sniffs sniffle sniffles snort snorts snorting exhale exhales inhale inhales breath "
    "breathe breathes gulp gulps shout shouts shouting applause excited excitedly sarcastic sarcastically".split()
)
MANNERS = frozenset("soft softly nervous nervously light lightly loud loudly quiet quietly".split())
"""Words that may precede or follow the name of a sound: [nervous laughter]."""
