"""Make buckets of the store at AWS_ENDPOINT_URL, those that are not there: `python deploy/buckets.py mlflow store`."""

import sys

import boto3

client = boto3.client("s3", region_name="us-east-1")
there = {bucket["Name"] for bucket in client.list_buckets()["Buckets"]}
for name in sys.argv[1:]:
    if name not in there:
        client.create_bucket(Bucket=name)
