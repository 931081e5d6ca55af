"""The document of the API (OpenAPI 3.1), made from the table of routes and the types in it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import MISSING
from importlib import metadata
from typing import Any

from cluster.service.http.routes import JSON, Query, Route, Table
from cluster.service.requests import MAX_TITLE
from cluster.service.views import ID_FORM, Problem
from distprove.formats.plain_data import TYPES, schema
from distprove.options import Setting, settings_of
from distprove.registry import SYSTEMS, entry_of

_EVERYWHERE = {
    400: "Not a request of HTTP.",
    408: "The request came too slowly.",
    417: "Nothing may be expected.",
    421: "The host is not this service.",
    429: "Too many requests.",
    500: "A fault of the service.",
}
_WITH_TOKEN = {401: "No token that is known.", 503: "Full, or ending."}
_ERRORS = {
    404: "No such job, or nothing there yet.",
    409: "Another job has this id.",
    413: "The body is too large.",
    415: "The body is not plain JSON.",
    422: "What is asked for is not usable as given.",
    503: "Full, or ending.",
}


_MEDIA: dict[str, dict[str, Any]] = {
    JSON: {"type": "object"},
    "application/octet-stream": {"type": "string", "format": "binary"},
    **{f"text/{kind}": {"type": "string"} for kind in ("plain", "html", "css", "javascript")},
    "image/svg+xml": {"type": "string"},
}
"""Schemas of answers without a type of their own."""


def document(table: Table) -> dict[str, Any]:
    """The OpenAPI document of the routes."""
    schemas: dict[str, Any] = {}
    paths: dict[str, Any] = {}
    for route in table.routes:
        paths.setdefault(route.path, {})[route.method.lower()] = _operation(route, schemas)
    if "JobRequest" in schemas:
        jobs = [_job(name, schemas) for name in SYSTEMS]
        schemas["JobRequest"]["properties"]["job"] |= {"oneOf": jobs, "discriminator": {"propertyName": "system"}}
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "distprove",
            "version": metadata.version("distprove"),
            "description": "A standing service that proves jobs. Paths in jobs are those of the service's machine. "
            "HEAD is answered wherever GET is, with the same head.",
        },
        "paths": paths,
        "components": {"schemas": schemas, "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}}},
        "security": [{"token": []}],
    }


def _operation(route: Route, schemas: dict[str, Any]) -> dict[str, Any]:
    summary, _, rest = " ".join(route.about.split()).partition(". ")
    errors = {**_EVERYWHERE, **({} if route.open else _WITH_TOKEN), **{code: _ERRORS[code] for code in route.errors}}
    failed = {"application/json": {"schema": schema(Problem, schemas)}}
    told = _MEDIA[route.media] if route.answer is None else schema(route.answer, schemas)
    content = {route.media: {"schema": told}}
    made: dict[str, Any] = {
        "operationId": route.name,
        "summary": summary.rstrip("."),
        "parameters": [*map(_in_path, re.findall(r"{(\w+)}", route.path)), *map(_in_query, route.query)],
        "responses": {
            **{str(code): {"description": about, "content": content} for code, about in route.codes.items()},
            **{str(code): {"description": about, "content": failed} for code, about in sorted(errors.items())},
        },
    }
    if rest:
        made["description"] = rest
    if route.body is not None:
        body = schema(route.body, schemas, complete=False)
        made["requestBody"] = {"required": True, "content": {JSON: {"schema": body}}}
    if route.open:
        made["security"] = []
    return made


def _job(system: str, schemas: dict[str, Any]) -> dict[str, Any]:
    """The schema of a job of a proof system, from the settings that a job file of it may have."""
    name, options = f"{system.capitalize()}Job", entry_of(system).options
    properties = {key: _setting(told) for key, told in settings_of(options).items()}
    fixed = {"system": {"const": system}, "title": {"type": "string", "maxLength": MAX_TITLE}}
    schemas[name] = {
        "type": "object",
        "properties": {**fixed, **properties},
        "required": ["system", *(key for key, told in settings_of(options).items() if told.default is MISSING)],
        "additionalProperties": False,
    }
    return {"$ref": f"#/components/schemas/{name}"}


def _setting(told: Setting) -> dict[str, Any]:
    made: dict[str, Any] = {"description": told.about}
    kinds = sorted({TYPES[kind] for kind in told.kinds} | ({"null"} if told.default is None else set()))
    made["type"] = kinds if len(kinds) > 1 else kinds[0]
    if told.types == (tuple,):
        made["items"] = {"type": ["string", "object"] if told.values else "string"}
    if told.choices:
        made["enum"] = list(told.choices)
    if told.bounds is not None:
        made |= {"minimum": told.bounds[0], "maximum": told.bounds[1]}
    if told.default not in (None, MISSING) and told.types != (tuple,):
        made["default"] = dict(told.default) if isinstance(told.default, Mapping) else told.default
    return made


def _in_path(name: str) -> dict[str, Any]:
    form: dict[str, Any] = {"type": "string"}
    if name == "id":
        form["pattern"] = f"^{ID_FORM}$"
    return {"name": name, "in": "path", "required": True, "schema": form}


def _in_query(query: Query) -> dict[str, Any]:
    named: dict[str, Any] = {}
    told = schema(query.kind, named)
    told = next(iter(named.values()), told)  # few enough to stand here
    if query.bounds:
        told = {**told, "minimum": query.bounds[0], "maximum": query.bounds[1]}
    if query.default is not None:
        told = {**told, "default": query.default}
    return {"name": query.name, "in": "query", "description": query.about, "schema": told}
