"""Post failed and crashed runs to a chat channel: `python deploy/notify.py
https://hooks.example/...`, once per server.

The address can be of any service that accepts a POST with a JSON `text`: Slack, Mattermost,
Rocket.Chat. Running this again replaces it.
"""

import sys
from typing import Any

from prefect.automations import Automation
from prefect.blocks.notifications import CustomWebhookNotificationBlock
from prefect.client.orchestration import get_client
from prefect.events import EventTrigger, Posture, ResourceSpecification
from prefect.events.actions import SendNotification

NAME = "electra-tell"
TEXT = "{{ flow_run.name }}: {{ flow_run.state.name }}. {{ flow_run.state.message }} "
TEXT += "{{ flow_run|ui_url }}"


def main(url: str) -> None:
    """Save the address in a block, and create the automation that uses it unless it exists."""
    block = CustomWebhookNotificationBlock(name=NAME, url=url, json_data={"text": "{{body}}"})
    block_id: Any = block.save(NAME, overwrite=True)
    trigger = EventTrigger(
        match=ResourceSpecification({"prefect.resource.id": "prefect.flow-run.*"}),
        expect={"prefect.flow-run.Failed", "prefect.flow-run.Crashed"},
        for_each={"prefect.resource.id"},
        posture=Posture.Reactive,
        threshold=1,
    )
    action = SendNotification(block_document_id=block_id, subject="ELECTRA", body=TEXT)
    with get_client(sync_client=True) as client:
        there = client.read_automations_by_name(NAME)
    if not there:
        Automation(name=NAME, trigger=trigger, actions=[action]).create()


if __name__ == "__main__":
    main(sys.argv[1])
