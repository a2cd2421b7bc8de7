module magnetar/http

go 1.19
