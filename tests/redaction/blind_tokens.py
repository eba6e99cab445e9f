"""Tokens by shape, written from the vendors' documentation without sight of the rules.

Blind: nothing was tuned on these lists. Don't change them to fit the rules; remove a row only
if it's objectively no secret. The half to tune on is in `development.py`.
"""

from typing import Final

SEED: Final = "blind-2024"

CONTEXTS: Final = (
    "{t}",
    "I pasted {t} into the settings page.",
    '{"value": "{t}", "ok": true}',
    "| prod | {t} | 2024-05-01 |",
    "curl -s https://api.example.net/v1/items -H 'X-Thing: {t}'",
    "2024-06-02T11:09:31Z INFO worker=3 sent={t} status=200",
    "```\n{t}\n```",
    "export THING={t}",
    "see `{t}`, it still works.",
    "Which one is it ({t})?",
    "https://api.example.net/cb?v={t}&x=1",
    "foo: '{t}'\nbar: 1\n",
    "- first\n- {t}\n- third\n",
    'client = Client("{t}", retries=3)',
)

P13: Final = {
    "openai": (
        "sk¦-proj-{w:74}T3Blbk¦FJ{w:73}k",
        "sk¦-{A:20}T3Blbk¦FJ{A:20}",
        "sk¦-svcacct-{w:74}T3Blbk¦FJ{w:73}k",
        "sk¦-admin-{w:58}T3Blbk¦FJ{w:57}k",
    ),
    "anthropic": ("sk¦-ant-api03-{w:93}AA", "sk¦-ant-admin01-{w:93}AA"),
    "openrouter": ("sk¦-or-v1-{h:64}",),
    "deepseek": ("sk¦-{h:32}",),
    "xai": ("xai¦-{A:80}",),
    "groq": ("gsk¦_{A:52}",),
    "perplexity": ("pplx¦-{A:48}",),
    "replicate": ("r8¦_{A:37}",),
    "huggingface": ("hf¦_{L:34}",),
    "aws-id": ("AKIA¦{32:16}", "ASIA¦{32:16}", "ABIA¦{32:16}"),
    "google": ("AIza¦Sy{w:32}k",),
    "google-token": ("ya29¦.a0Ad{w:120}k", "ya29¦.c.{w:160}k"),
    "azure-client": ("{A:3}8Q¦~{w:33}k", "{A:3}7Q¦~{w:30}k"),
    "github": (
        "ghp¦_{A:36}",
        "gho¦_{A:36}",
        "ghu¦_{A:36}",
        "ghs¦_{A:36}",
        "ghr¦_{A:36}",
        "github¦_pat_{A:22}_{A:59}",
    ),
    "gitlab": ("glpat¦-{w:19}k",),
    "slack": (
        "xoxb¦-{-d:12}-{-d:13}-{A:24}",
        "xoxp¦-{-d:12}-{-d:12}-{-d:13}-{h:32}",
        "xapp¦-1-A0{-u:9}-{-d:13}-{h:64}",
    ),
    "slack-webhook": ("https://hooks.slack.com/serv¦ices/T{-u:10}/B{-u:10}/{A:24}",),
    "stripe": ("sk¦_live_{A:24}", "sk¦_live_51{A:97}", "rk¦_live_{A:99}", "whsec¦_{A:32}"),
    "npm": ("npm¦_{A:36}",),
    "pypi": ("pypi¦-AgEIcHlwaS5vcmc{w:150}k",),
    "sendgrid": ("SG¦.{w:21}k.{w:42}k",),
    "mailgun": ("key¦-{h:32}",),
    "telegram": ("{-d:9}1:AA{w:32}k", "{-d:8}4:AA{w:32}k"),
    "discord": ("https://discord.com/api/web¦hooks/{-d:18}1/{w:67}k",),
    "digitalocean": ("dop¦_v1_{h:64}", "doo¦_v1_{h:64}", "dor¦_v1_{h:64}"),
    "shopify": ("shpat¦_{h:32}", "shpss¦_{h:32}", "shpca¦_{h:32}", "shppa¦_{h:32}"),
    "databricks": ("dapi¦{h:32}", "dapi¦{h:32}-2"),
    "newrelic": ("NRAK¦-{u:27}",),
    "grafana": ("glsa¦_{A:32}_{h:8}",),
    "vault": ("hvs¦.CAES{w:91}k", "hvs¦.{A:24}", "hvb¦.AAAAAQ{w:150}k"),
    "terraform": ("{A:14}.atlas¦v1.{w:66}k",),
    "doppler": ("dp¦.pt.{A:43}", "dp¦.ct.{A:43}", "dp¦.st.prd.{A:43}", "dp¦.sa.{A:43}"),
    "linear": ("lin¦_api_{A:40}",),
    "notion": ("ntn¦_{-d:11}{A:35}", "secret¦_{A:43}"),
    "atlassian": ("ATATT3¦xFfGF0{w:170}k={X:8}",),
    "age": ("AGE-SECRET¦-KEY-1{u:58}",),
    "jwt": (
        "eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9¦.eyJzdWIiOiIx{A:60}.{w:42}k",
        "eyJhbGciOiJSUzI1NiIsImtpZCI6ImExIn0¦.eyJpc3MiOiJodHRwczovL2E{A:90}.{w:341}k",
    ),
}
"""Kinds that say what they are, to be put into any context."""

P13_IN_PLACE: Final = {
    "aws-secret": (
        "[default]\naws_access_key_id = AKIA¦{32:16}\naws_secret_access_key = {B:40}\n",
        "export AWS_SECRET_ACCESS_KEY={B:40}",
        '"SecretAccessKey": "{B:40}",',
        "AWS_SESSION_TOKEN=IQoJb3JpZ2luX2Vj{B:200}==",
    ),
    "azure-account": (
        (
            "DefaultEndpointsProtocol=https;AccountName=acme;AccountKey={B:86}==;"
            "EndpointSuffix=core.windows.net"
        ),
        "AZURE_STORAGE_KEY={B:86}==",
        "AccountEndpoint=https://acme.documents.azure.com:443/;AccountKey={B:86}==;",
    ),
    "azure-bus": (
        (
            "Endpoint=sb://acme.servicebus.windows.net/;SharedAccessKeyName=Root;"
            "SharedAccessKey={B:43}="
        ),
        "HostName=acme.azure-devices.net;SharedAccessKeyName=owner;SharedAccessKey={B:43}=",
    ),
    "azure-sas": (
        (
            "https://acme.blob.core.windows.net/c/b.txt?sv=2022-11-02&se=2030-01-01&sr=b&sp=r"
            "&sig={A:20}%2B{A:20}%3D"
        ),
        "?sv=2021-06-08&ss=b&srt=sco&sp=rl&sig={A:41}%2F%3D&se=2026-01-01T00%3A00%3A00Z",
    ),
    "pem": (
        (
            "-----BEGIN RSA PRIV¦ATE KEY-----\nMIIEpAIBAAKCAQEA{B:48}\n{B:64}\n{B:64}\n{B:30}==\n"
            "-----END RSA PRIV¦ATE KEY-----"
        ),
        (
            "-----BEGIN OPENSSH PRIV¦ATE KEY-----\nb3BlbnNzaC1rZXktdjEAAAAABG5vbmU{B:39}\n{B:70}\n"
            "{B:20}=\n-----END OPENSSH PRIV¦ATE KEY-----\n"
        ),
        (
            '{"private_key": "-----BEGIN PRIV¦ATE KEY-----\\nMIIEvQIBADAN{B:52}\\n{B:64}\\n'
            '{B:24}\\n-----END PRIV¦ATE KEY-----\\n"}'
        ),
        "-----BEGIN EC PRIV¦ATE KEY-----\n{B:64}\n{B:64}\n{B:36}\n-----END EC PRIV¦ATE KEY-----",
        (
            "-----BEGIN PGP PRIV¦ATE KEY BLOCK-----\n\nlQOYBF{B:58}\n{B:64}\n=aB3d\n"
            "-----END PGP PRIV¦ATE KEY BLOCK-----"
        ),
        (
            "-----BEGIN ENCRYPTED PRIV¦ATE KEY-----\n{B:64}\n{B:64}\n{B:30}==\n"
            "-----END ENCRYPTED PRIV¦ATE KEY-----"
        ),
    ),
    "url-password": (
        "postgresql://app:{A:16}@db.internal:5432/app?sslmode=require",
        "DATABASE_URL=mysql://root:{A:9}@127.0.0.1/shop",
        "git clone https://deploy:{A:20}@git.example.org/team/repo.git",
        "redis://:{A:24}@cache:6379/0",
        "amqps://svc:{A:12}%21{A:6}@mq.example.org/vhost",
        "mongodb+srv://reader:{A:14}@cluster0.ab1cd.mongodb.net/?retryWrites=true",
    ),
    "bearer": (
        "Authorization: Bearer {A:40}",
        "curl -H 'Authorization: Bearer {w:63}k' https://api.example.org/me",
        '"authorization": "bearer {h:40}"',
        "Proxy-Authorization: Bearer {A:32}",
    ),
    "basic": (
        "Authorization: Basic {A:31}=",
        "-H 'Authorization: Basic {A:26}=='",
        '"Authorization": "Basic {A:36}"',
    ),
    "api-key-header": (
        "x-api-key: {A:40}",
        "curl -H 'X-Api-Key: {h:32}' https://api.example.org/v2",
        "api-key: {h:32}",
        "X-Auth-Token: {A:32}",
        "PRIVATE-TOKEN: {w:19}k",
    ),
    "cookie": (
        "Cookie: session={A:40}",
        "Set-Cookie: sessionid={l:32}; HttpOnly; Path=/",
        "Cookie: theme=dark; auth_token={A:40}; lang=en",
        "set-cookie: connect.sid=s%3A{w:31}k.{A:43}; Path=/",
    ),
}
"""Kinds that are known by what stands around them."""

DOCUMENTED: Final = {
    # What detect-secrets looks for.
    "artifactory": ("AKC¦p{A:68}", "cmVmdGtu¦{A:56}"),
    "discord-bot": (
        "MTA{A:21}.G{A:5}.{w:37}k",
        "NDk{A:21}.X{A:5}.{w:26}k",
        "OTk{A:23}.Y{A:5}.{w:37}k",
    ),
    "gitlab-other": (
        "gldt¦-{w:19}k",
        "glft¦-{w:19}k",
        "glsoat¦-{w:19}k",
        "glrt¦-{w:19}k",
        "glcbt¦-1a_{w:19}k",
        "glptt¦-{h:40}",
        "glimt¦-{w:24}k",
        "glagent¦-{w:49}k",
        "gloas¦-{h:64}",
        "GR1348¦941{w:19}k",
    ),
    "jwt-short": ("eyJ0eXAiOiJKV1QiLCJhbGciOiJub25lIn0¦.eyJhIjoi{A:24}.{w:42}k",),
    "mailchimp": ("{h:32}-us12", "{h:32}-us7"),
    "pypi-test": ("pypi¦-AgENdGVzdC5weXBpLm9yZw{w:150}k",),
    "slack-web": (
        "xoxc¦-{-d:12}-{-d:12}-{-d:13}-{h:64}",
        "xoxd¦-{A:40}%2B{A:30}%2F{A:40}%3D",
        "xoxe.xoxp¦-1-{A:160}",
        "xoxe¦-1-{A:140}",
        "xoxs¦-{-d:12}-{-d:12}-{-d:12}-{h:10}",
        "xoxr¦-{-d:12}-{-d:12}-{-d:12}-{h:32}",
        "xoxa¦-2-{-d:12}-{-d:12}-{-d:12}-{h:32}",
    ),
    "square": ("sq0csp¦-{w:42}k", "sq0atp¦-{w:21}k", "EAAAE¦{w:58}k"),
    "stripe-test": ("sk¦_test_{A:24}", "rk¦_test_51{A:97}"),
    "twilio": ("SK¦{h:32}",),
    # What the vendors document.
    "anthropic-oauth": ("sk¦-ant-oat01-{w:93}AA", "sk¦-ant-ort01-{w:93}AA"),
    "google-oauth": ("GOCSPX¦-{w:27}k", "1//0¦g{w:98}k"),
    "azure-annotated": (
        "{A:42}AzSe¦{A:6}",
        "{A:44}AzFu¦{A:6}==",
        "{A:33}AzCa¦{A:6}=",
        "{A:76}AZDO¦{A:4}",
    ),
    "nvidia": ("nvapi¦-{w:63}k",),
    "langsmith": ("lsv2¦_pt_{h:32}_{h:10}", "lsv2¦_sk_{h:32}_{h:10}"),
    "langfuse": ("sk-lf¦-{h:8}-{-h:4}-4{-h:3}-8{-h:3}-{h:12}",),
    "pinecone": ("pcsk¦_{A:5}_{A:60}",),
    "fireworks": ("fw¦_{A:24}",),
    "cerebras": ("csk¦-{l:48}",),
    "elevenlabs": ("sk¦_{h:48}",),
    "tavily": ("tvly¦-{A:32}", "tvly¦-dev-{A:32}"),
    "wandb": ("wandb¦_v1_{A:77}",),
    "heroku": ("HRKU¦-AA{w:57}k",),
    "fly": ("fo1¦_{w:42}k", "FlyV1 fm2¦_lJPE{B:200}="),
    "render": ("rnd¦_{A:32}",),
    "vercel-blob": ("vercel¦_blob_rw_{A:16}_{A:30}",),
    "netlify": ("nfp¦_{A:40}",),
    "supabase": ("sbp¦_{h:40}", "sb¦_secret_{w:21}k_{A:8}"),
    "planetscale": ("pscale¦_tkn_{w:42}k", "pscale¦_pw_{w:42}k", "pscale¦_oauth_{w:42}k"),
    "cloudflare-origin": ("v1.0¦-{h:24}-{h:146}",),
    "tailscale": ("tskey¦-auth-k{A:11}CNTRL-{A:32}", "tskey¦-api-k{A:11}CNTRL-{A:32}"),
    "onepassword": ("ops¦_eyJ{A:300}", "A3-{u:6}-{u:6}-{u:5}-{u:5}-{u:5}-{u:5}"),
    "pulumi": ("pul¦-{h:40}",),
    "docker-hub": ("dckr¦_pat_{w:26}k", "dckr¦_oat_{w:31}k"),
    "sonar": ("sqp¦_{h:40}", "squ¦_{h:40}", "sqa¦_{h:40}"),
    "circleci": ("CCIPAT¦_{A:22}_{h:40}",),
    "buildkite": ("bkua¦_{h:40}",),
    "rubygems": ("rubygems¦_{h:48}",),
    "crates": ("cio¦{A:32}",),
    "nuget": ("oy2¦{l:43}",),
    "clojars": ("CLOJARS¦_{h:60}",),
    "postman": ("PMAK¦-{h:24}-{h:34}",),
    "bitbucket": ("ATBB¦{A:24}{X:8}",),
    "linear-oauth": ("lin¦_oauth_{h:64}",),
    "airtable": ("pat{A:14}.{h:64}",),
    "figma": ("figd¦_{w:40}k",),
    "trello": ("ATTA¦{h:64}{X:8}",),
    "dropbox": ("sl¦.B{w:134}k", "sl¦.u.AF{w:160}k"),
    "typeform": ("tfp¦_{A:40}_{A:13}",),
    "contentful": ("CFPAT¦-{w:42}k",),
    "plaid": ("access-produc¦tion-{h:8}-{-h:4}-4{-h:3}-9{-h:3}-{h:12}",),
    "flutterwave": ("FLWSECK¦-{h:32}-X", "FLWSECK¦_TEST-{h:32}-X"),
    "braintree": ("access_token$prod¦uction${l:16}${h:32}",),
    "easypost": ("EZAK¦{A:54}",),
    "shippo": ("shippo¦_live_{h:40}",),
    "duffel": ("duffel¦_live_{w:42}k",),
    "newrelic-insert": ("NRII¦-{w:31}k",),
    "grafana-cloud": ("glc¦_eyJvIjoi{A:100}",),
    "sentry": (
        "sntrys¦_eyJpYXQiOjE3{A:120}_{A:43}",
        "sntryu¦_{h:64}",
    ),
    "dynatrace": ("dt0c01¦.{u:24}.{u:64}",),
    "posthog": ("phx¦_{A:43}",),
    "segment": ("sgp¦_{A:64}",),
    "launchdarkly": ("sdk-{h:8}-{-h:4}-4{-h:3}-a{-h:3}-{h:12}",),
    "brevo": ("xkeysib¦-{h:64}-{A:16}",),
    "resend": ("re¦_{A:8}_{A:24}",),
    "hubspot": ("pat-na1¦-{h:8}-{-h:4}-4{-h:3}-b{-h:3}-{h:12}",),
    "facebook": ("EAAC¦{A:180}ZD",),
    "twitter": ("AAAAAAAAAAAAAAAAAAAA¦A{A:25}%3D{A:50}",),
    "yandex": ("AQVN¦{w:34}k",),
    "age-identity": ("AGE-SECRET¦-KEY-1{u:58}",),
}
"""Kinds that say what they are, named by detect-secrets or their vendors."""

DOCUMENTED_IN_PLACE: Final = {
    "cloudant": (
        'cloudant_password = "{h:64}"',
        "https://acme:{h:64}@acme.cloudant.com/db",
        "cl_pass='{h:64}'",
    ),
    "ibm-cloud": ("ibm_cloud_iam_api_key = '{w:43}k'", "IBMCLOUD_API_KEY={w:43}k"),
    "ibm-cos": ('cos_hmac_secret_access_key: "{h:48}"', "secret_access_key={h:48}"),
    "softlayer": ("softlayer_api_key = '{h:64}'", 'sl_api_key: "{l:64}"'),
    "twilio-auth": ("TWILIO_AUTH_TOKEN={h:32}", "twilio auth token: {h:32}"),
    "npmrc": (
        "//registry.npmjs.org/:_authToken={h:8}-{-h:4}-4{-h:3}-8{-h:3}-{h:12}",
        "//npm.acme.example/:_auth={A:35}=",
        "//npm.acme.example/:_password={A:27}=",
    ),
    "putty": (
        (
            "PuTTY-User-Key-¦File-2: ssh-rsa\nEncryption: none\nComment: imported\nPublic-Lines: 1\n"  # noqa: E501
            "AAAAB3NzaC1yc2E\nPrivate-Lines: 3\n{B:64}\n{B:64}\n{B:30}==\nPrivate-MAC: {-h:40}\n"
        ),
        (
            "PuTTY-User-Key-¦File-3: ssh-ed25519\r\nEncryption: none\r\nComment: ed25519-key\r\n"
            "Public-Lines: 2\r\nAAAAC3NzaC1lZDI1NTE5AAAAIF\r\nabc\r\nPrivate-Lines: 1\r\n{B:43}=\r\n"  # noqa: E501
            "Private-MAC: {-h:64}\r\n"
        ),
    ),
    "kubeconfig": (
        (
            "users:\n- name: admin\n  user:\n    client-certificate-data: LS0tLS1CRUdJTg==\n"
            "    client-key-data: LS0tLS1CRUdJTiBSU0Eg{B:400}==\n"
        ),
        '{"name": "dev", "user": {"client-key-data": "LS0tLS1CRUdJTiBFQyBQUk{B:300}="}}',
        "  user:\n    token: {A:43}\n",
    ),
    "kubernetes-secret": (
        "apiVersion: v1\nkind: Secret\nmetadata:\n  name: db\ndata:\n  password: {A:23}=\n",
        "kind: Secret\nstringData:\n  password: {A:18}\n",
    ),
    "netrc": (
        "machine api.example.org login deploy password {A:14}",
        "machine github.com\n  login bob\n  password {A:20}\n",
        "default login anonymous password {A:9}",
    ),
    "pgpass": ("db.internal:5432:shop:app:{A:14}", "*:*:*:postgres:{A:12}"),
    "pypirc": ("[pypi]\nusername = bob\npassword = {A:15}\n",),
    "docker-config": (
        '{"auths": {"https://index.docker.io/v1/": {"auth": "{A:35}="}}}',
        '"registry.example.org": {\n  "auth": "{A:30}=="\n}',
    ),
    "docker-login": (
        "docker login -u deploy -p {A:16} registry.example.org",
        "docker login registry.example.org -u ci --password {A:20}",
        "podman login -u ci -p '{A:12}' quay.example.org",
        "helm registry login r.example.org -u ci -p {A:14}",
    ),
    "mysql": (
        "mysql -u root -p{A:10} shop < dump.sql",
        "mysqldump --user=backup --password={A:12} --all-databases",
        "mysql -h db -uapp -p'{A:9}' -e 'select 1'",
        "mysqladmin -uroot -p{A:12} ping",
    ),
    "curl-user": (
        "curl -u admin:{A:10} https://jenkins.example.org/api/json",
        "curl --user 'bob:{A:14}' -X POST https://example.org",
        "http -a bob:{A:11} example.org",
    ),
    "command-line": (
        "sshpass -p '{A:11}' ssh root@10.0.0.7",
        "redis-cli -h cache -a {A:16} ping",
        "mongosh -u admin -p {A:12} --authenticationDatabase admin",
        "PGPASSWORD={A:12} psql -h db -U app",
        "htpasswd -b .htpasswd bob {A:10}",
        "smbclient //nas/share -U bob%{A:10}",
        "openssl pkcs12 -in a.p12 -passin pass:{A:10} -nodes",
        "gpg --batch --passphrase {A:14} -d a.gpg",
        "az login --service-principal -u app -p {w:33}k --tenant t",
        "ldapsearch -x -D cn=admin,dc=x -w {A:11} -b dc=x",
        "echo {A:14} | sudo -S systemctl restart nginx",
        "echo '{A:16}' | docker login -u ci --password-stdin",
        "kubectl create secret generic db --from-literal=password={A:14}",
        "vault login {A:24}",
        "net use Z: \\\\nas\\share /user:bob {A:12}",
        "rclone config create x sftp host h user u pass {A:22}",
    ),
    "service-account": (
        (
            '{"type": "service_account", "private_key_id": "{-h:40}", "private_key": '
            '"-----BEGIN PRIV¦ATE KEY-----\\nMIIEvAIBADANBgkq{B:1000}\\n'
            '-----END PRIV¦ATE KEY-----\\n"}'
        ),
    ),
    "okta": ("Authorization: SSWS 00{w:39}k",),
    "splunk": ("Authorization: Splunk {h:8}-{-h:4}-4{-h:3}-9{-h:3}-{h:12}",),
    "github-basic": ("https://x-access-token:ghs¦_{A:36}@github.com/acme/app.git",),
    "teams-webhook": (
        (
            "https://acme.webhook.office.com/webhookb2/{-h:8}-{-h:4}-4{-h:3}-9{-h:3}-{-h:12}"
            "@{-h:8}-{-h:4}-4{-h:3}-9{-h:3}-{-h:12}/IncomingWebhook/{h:32}/"
            "{-h:8}-{-h:4}-4{-h:3}-9{-h:3}-{-h:12}"
        ),
    ),
    "signed-url": (
        (
            "https://b.s3.amazonaws.com/k?X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Date=20240101T0000"
            "00Z&X-Amz-Signature={h:64}"
        ),
        "https://storage.googleapis.com/b/k?X-Goog-Date=20240101T000000Z&X-Goog-Signature={h:256}",
    ),
    "datadog": ("DD_API_KEY={h:32}", "DD-APPLICATION-KEY: {h:40}"),
    "wireguard": ("[Interface]\nPrivateKey = {B:43}=\n", "PresharedKey = {B:43}=\n"),
    "totp": ("otpauth://totp/Acme:bob?secret={32:32}&issuer=Acme",),
}
"""Kinds that are known by what stands around them, named by their vendors or tools."""
